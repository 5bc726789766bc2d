/**
 * OpenTelemetry traces.
 *
 * Each decided batch has a span with links to the spans of its producers. Each request to the webhook has a
 * span below the span of its sender. Each step of their transactions has a child span. No span holds an
 * event, a player or a key. The module is loaded only where traces are configured; no other module knows
 * OpenTelemetry.
 *
 * Names follow the semantic conventions for messaging and databases. Attributes without a name there begin
 * with `promo_intake.`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Attributes,
  DiagLogLevel,
  diag,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { parseKeyPairsIntoRecord, parseTraceParent, setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { Logger } from 'pino';
import { systemClock } from '../lib/clock';
import { messageOf } from '../lib/errors';
import { limitLines } from '../lib/line-limit';
import { firstHeader } from '../lib/record-header';
import type { TopicPartition } from '../lib/topic-partition';
import { TRANSACTION_STEPS, type TransactionStep } from '../telemetry/metrics';
import type { Envelope, Section } from './delivery';
import type { Intake, IntakeResult } from './intake';
import { undecidedCause } from './undecided';

/**
 * The largest number of links from a batch to its producers. OpenTelemetry's specification has the same
 * limit, and collectors expect it.
 */
export const MAX_LINKS = 128;
/** The length of the part that every version of `traceparent` shares: version, trace, span and flags. */
const TRACEPARENT_BYTES = 55;

type Decides = Pick<Intake, 'decide'>;

interface Answered {
  /** The HTTP status. */
  readonly status: number;
}

export interface Tracing {
  /** The same intake, with a span for each batch. */
  traced(intake: Decides): Decides;
  /**
   * Answers a request to the webhook whose sender is known, with a span for it.
   * @param route the path with names in braces: no span holds the value that a request has in their place
   * @param traceparent of its headers
   * @param began by performance.now()
   */
  request<A extends Answered>(
    route: string,
    traceparent: unknown,
    began: number,
    answer: () => Promise<A>,
  ): Promise<A>;
  /** Runs a transaction of the batch or request in the current span. `run` reports the end of each step. */
  transaction<T>(run: (ended: (step: TransactionStep) => void) => Promise<T>): Promise<T>;
  /** Sends the remaining spans. Never fails, and takes as long as the collector does. */
  close(): Promise<void>;
}

export interface TracingOptions {
  /** Absent where no Kafka record is read. */
  readonly groupId?: string;
  readonly version: string;
  /**
   * Headers for the collector, in the form of OTEL_EXPORTER_OTLP_HEADERS. They are read again for each
   * request.
   */
  readonly headers: (() => string) | undefined;
}

/**
 * The SDK itself reads OpenTelemetry's variables for the endpoint, the sampling ratio and the queue length.
 */
export function makeTracing({ groupId, version, headers }: TracingOptions, logger: Logger): Tracing {
  const logLimited = limitLines(logger, systemClock);
  const warn = (error: string) => logLimited('export', { error }, 'cannot send some or all traces');
  diag.setLogger(
    { error: warn, warn, info: warn, debug: warn, verbose: warn },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  setGlobalErrorHandler((error) => warn(messageOf(error)));
  const exporter = new OTLPTraceExporter(
    headers === undefined ? {} : { headers: async () => parseKeyPairsIntoRecord(headers()) },
  );
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'promo-intake', 'service.version': version }).merge(
      detectResources({ detectors: [envDetector] }),
    ),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  const tracer = provider.getTracer('promo-intake', version);
  /** The span of the batch or request in progress. */
  const current = new AsyncLocalStorage<Span>();

  async function decide(
    intake: Decides,
    ...batch: Parameters<Intake['decide']>
  ): Promise<readonly IntakeResult[]> {
    const [parts] = batch;
    const topics = new Set(parts.map(({ origin }) => origin.topic));
    const span = tracer.startSpan(
      `process ${[...topics].join(' ')}`,
      { kind: SpanKind.CONSUMER, attributes: attributesOf(parts, groupId) },
      ROOT_CONTEXT,
    );
    // An unsampled batch has no use for links, so its headers are not read.
    if (!span.isRecording()) return intake.decide(...batch);
    span.addLinks(linksOf(parts.flatMap(({ envelopes }) => envelopes)));
    const results = await current.run(span, () => intake.decide(...batch));
    const decided = results.reduce((sum, { answers }) => sum + answers.length, 0);
    span.setAttribute('promo_intake.decided_count', decided);
    const undecided = results.find((result) => result.undecided !== null)?.undecided ?? null;
    if (undecided !== null) fail(span, undecided, undecidedCause(undecided));
    span.end();
    return results;
  }

  async function request<A extends Answered>(
    route: string,
    traceparent: unknown,
    began: number,
    answer: () => Promise<A>,
  ): Promise<A> {
    const sender = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null;
    const attributes = { 'http.request.method': 'POST', 'http.route': route };
    const span = tracer.startSpan(
      `POST ${route}`,
      { kind: SpanKind.SERVER, attributes, startTime: began },
      sender === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...sender, isRemote: true }),
    );
    try {
      const answered = await current.run(span, answer);
      span.setAttribute('http.response.status_code', answered.status);
      if (answered.status >= 500) {
        span.setAttribute('error.type', String(answered.status));
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      return answered;
    } catch (error) {
      fail(span, error, error instanceof Error ? error.name : 'Error');
      throw error;
    } finally {
      span.end();
    }
  }

  async function transaction<T>(run: (ended: (step: TransactionStep) => void) => Promise<T>): Promise<T> {
    const batch = current.getStore();
    if (batch === undefined) return run(() => undefined);
    const context = trace.setSpan(ROOT_CONTEXT, batch);
    let began = performance.now();
    let done = 0;
    const stepSpan = (step: TransactionStep): Span => {
      const isStoreStep = step !== 'decide';
      const span = tracer.startSpan(
        step,
        {
          kind: isStoreStep ? SpanKind.CLIENT : SpanKind.INTERNAL,
          startTime: began,
          attributes: isStoreStep ? { 'db.system.name': 'postgresql' } : {},
        },
        context,
      );
      began = performance.now();
      return span;
    };
    try {
      return await run((step) => {
        done = TRANSACTION_STEPS.indexOf(step) + 1;
        stepSpan(step).end(began);
      });
    } catch (error) {
      const under = TRANSACTION_STEPS[done];
      if (under !== undefined) {
        const span = stepSpan(under);
        fail(span, error, error instanceof Error ? error.name : 'Error');
        span.end(began);
      }
      throw error;
    }
  }

  return {
    traced: (intake) => ({ decide: (...batch) => decide(intake, ...batch) }),
    request,
    transaction,
    close: () =>
      provider.shutdown().catch((error: unknown) => {
        logger.warn({ error: messageOf(error) }, 'the last traces were not sent');
      }),
  };
}

/** A batch of several partitions names neither a partition nor offsets. */
function attributesOf(parts: readonly Section<TopicPartition>[], groupId: string | undefined): Attributes {
  const [only, ...others] = parts;
  const [first, last] = [only?.envelopes.at(0)?.offset, only?.envelopes.at(-1)?.offset];
  return {
    'messaging.system': 'kafka',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    ...(only === undefined ? {} : { 'messaging.destination.name': only.origin.topic }),
    ...(groupId === undefined ? {} : { 'messaging.consumer.group.name': groupId }),
    'messaging.batch.message_count': parts.reduce((sum, { envelopes }) => sum + envelopes.length, 0),
    ...(only !== undefined &&
      others.length === 0 && {
        'messaging.destination.partition.id': String(only.origin.partition),
        ...(first === undefined ? {} : { 'promo_intake.first_offset': first }),
        ...(last === undefined ? {} : { 'promo_intake.last_offset': last }),
      }),
  };
}

/**
 * Links to the spans that the records' `traceparent` headers name (W3C Trace Context). Each sampled span has
 * one link, with the offset of its first record. There are at most MAX_LINKS links.
 */
export function linksOf(envelopes: readonly Pick<Envelope, 'headers' | 'offset'>[]): Link[] {
  const seen = new Set<string>();
  const links: Link[] = [];
  let last: Buffer | undefined;
  for (const { headers, offset } of envelopes) {
    if (links.length === MAX_LINKS) break;
    const header = firstHeader(headers, 'traceparent');
    // The previous header or the flags settle most cases: the slow checks come last.
    if (!header || last?.equals(header)) continue;
    last = header;
    const text = header.toString('latin1', 0, TRACEPARENT_BYTES);
    if (!isSampled(text) || seen.has(text)) continue;
    seen.add(text);
    const context = parseTraceParent(text);
    if (context === null) continue;
    links.push({
      context: { ...context, isRemote: true },
      attributes: { 'messaging.kafka.offset': offset },
    });
  }
  return links;
}

/** By the flags at the end of the header. */
function isSampled(traceparent: string): boolean {
  return (Number.parseInt(traceparent.slice(-2), 16) & TraceFlags.SAMPLED) !== 0;
}

function fail(span: Span, error: unknown, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) });
}

/**
 * OpenTelemetry traces: a span for each batch that is decided, with links to the spans of its producers, or for each request to the webhook, below
 * that of its sender; and a child for each step of their transactions. Loaded only where traces are configured, and nothing else knows of OpenTelemetry. No span holds an event, a player or a key.
 *
 * Names are those of the semantic conventions for messaging and databases; what these have no name for begins with `promo_intake.`.
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
import { messageOf } from '../lib/errors';
import { firstHeader } from '../lib/record-header';
import type { TopicPartition } from '../lib/topic-partition';
import { limitRate } from '../telemetry/logger';
import { TRANSACTION_STEPS, type TransactionStep } from '../telemetry/metrics';
import type { Envelope } from './delivery';
import type { Intake, IntakeResult } from './intake';
import { undecidedCause } from './undecided';

/** Producers that a batch is linked to, at most: the limit of OpenTelemetry's own specification, and what collectors are made for. */
export const MAX_LINKS = 128;
/** A `traceparent` of any version begins with so many bytes that tell the same: version, trace, span and flags. */
const TRACEPARENT_BYTES = 55;
/** What goes wrong with traces is told once in this time, with how often it did. */
const LOG_INTERVAL_MS = 60_000;

type Decides = Pick<Intake, 'decide'>;

interface Answered {
  /** Of HTTP. */
  readonly status: number;
}

/** Semantic conventions name a route, never what a request has in its place. */
const WEBHOOK_ROUTE = '/v1/events/{connection_id}';

export interface Tracing {
  /** The same intake, with a span for each batch. */
  traced(intake: Decides): Decides;
  /** Answers a request to the webhook whose sender is known, with a span for it. @param traceparent of its headers @param began by performance.now() */
  request<A extends Answered>(traceparent: unknown, began: number, answer: () => Promise<A>): Promise<A>;
  /** Runs a transaction of the batch or request that is traced now; it tells the end of each step. */
  transaction<T>(run: (ended: (step: TransactionStep) => void) => Promise<T>): Promise<T>;
  /** Sends what is left. Never fails, and takes as long as the collector does. */
  close(): Promise<void>;
}

export interface TracingOptions {
  /** Absent where nothing is read from Kafka. */
  readonly groupId?: string;
  readonly version: string;
  /** Headers for the collector, as OTEL_EXPORTER_OTLP_HEADERS has them; read anew for each request. */
  readonly headers: (() => string) | undefined;
}

/** Where to, which share, how many spans wait: the SDK reads OpenTelemetry's variables by itself. */
export function makeTracing({ groupId, version, headers }: TracingOptions, logger: Logger): Tracing {
  const tell = limitRate<string>(LOG_INTERVAL_MS, (error, untold) =>
    logger.warn({ error, untold }, 'traces are not sent, or not all of them'),
  );
  diag.setLogger(
    { error: tell, warn: tell, info: tell, debug: tell, verbose: tell },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  setGlobalErrorHandler((error) => tell(messageOf(error)));
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
  /** The span of the batch or request that is being decided. */
  const current = new AsyncLocalStorage<Span>();

  async function decide(intake: Decides, ...batch: Parameters<Intake['decide']>): Promise<IntakeResult> {
    const [source, envelopes] = batch;
    const attributes = attributesOf(source, groupId, envelopes);
    const span = tracer.startSpan(
      `process ${source.topic}`,
      { kind: SpanKind.CONSUMER, attributes },
      ROOT_CONTEXT,
    );
    // Of what is not sampled no header is read.
    if (!span.isRecording()) return intake.decide(...batch);
    span.addLinks(linksOf(envelopes));
    const result = await current.run(span, () => intake.decide(...batch));
    span.setAttribute('promo_intake.decided_count', result.answers.length);
    if (result.undecided !== null) fail(span, result.undecided, undecidedCause(result.undecided));
    span.end();
    return result;
  }

  async function request<A extends Answered>(
    traceparent: unknown,
    began: number,
    answer: () => Promise<A>,
  ): Promise<A> {
    const sender = typeof traceparent === 'string' ? parseTraceParent(traceparent) : null;
    const attributes = { 'http.request.method': 'POST', 'http.route': WEBHOOK_ROUTE };
    const span = tracer.startSpan(
      `POST ${WEBHOOK_ROUTE}`,
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

function attributesOf(
  { topic, partition }: TopicPartition,
  groupId: string | undefined,
  envelopes: readonly Envelope[],
): Attributes {
  const [first, last] = [envelopes.at(0)?.offset, envelopes.at(-1)?.offset];
  return {
    'messaging.system': 'kafka',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.destination.name': topic,
    'messaging.destination.partition.id': String(partition),
    ...(groupId === undefined ? {} : { 'messaging.consumer.group.name': groupId }),
    'messaging.batch.message_count': envelopes.length,
    ...(first === undefined ? {} : { 'promo_intake.first_offset': first }),
    ...(last === undefined ? {} : { 'promo_intake.last_offset': last }),
  };
}

/**
 * Links to the spans that the records' `traceparent` headers name (W3C Trace Context): those that were sampled, each once, with the offset of
 * the first record of it, MAX_LINKS at most.
 */
export function linksOf(envelopes: readonly Pick<Envelope, 'headers' | 'offset'>[]): Link[] {
  const seen = new Set<string>();
  const links: Link[] = [];
  let last: Buffer | undefined;
  for (const { headers, offset } of envelopes) {
    if (links.length === MAX_LINKS) break;
    const header = firstHeader(headers, 'traceparent');
    // Most are known by the one before or by their flags: what takes time comes last.
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

/** By the flags, which end it. */
function isSampled(traceparent: string): boolean {
  return (Number.parseInt(traceparent.slice(-2), 16) & TraceFlags.SAMPLED) !== 0;
}

function fail(span: Span, error: unknown, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) });
}

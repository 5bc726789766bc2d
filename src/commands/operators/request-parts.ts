/** Collects the parts of a request to a webhook, as many as its limits allow. */
import { MAX_BYTES } from '../../check/request-limits';
import { bodyBytes } from '../../domain/event/request-body';

/** The JSON values around the parts: an object and its array. */
const VALUES_AROUND = 2;

/** An event, or the question for one. */
export interface RequestPart {
  readonly bytes: Buffer;
  /** Its JSON values, counted with the comma before it. */
  readonly values: number;
}

export interface PartLimits {
  readonly events: number;
  readonly values: number;
}

export class RequestParts<P extends RequestPart> {
  private parts: P[] = [];
  private bytes = 0;
  private values = 0;

  constructor(private readonly limits: PartLimits) {}

  get isEmpty(): boolean {
    return this.parts.length === 0;
  }

  /** Whether the part fits beside those that were added. */
  fits({ bytes, values }: RequestPart): boolean {
    const count = this.parts.length + 1;
    return (
      count <= this.limits.events &&
      bodyBytes(count, this.bytes + bytes.length) <= MAX_BYTES &&
      VALUES_AROUND + this.values + values <= this.limits.values
    );
  }

  add(part: P): void {
    this.parts.push(part);
    this.bytes += part.bytes.length;
    this.values += part.values;
  }

  /** @returns the parts of a request, and begins the next one */
  take(): readonly P[] {
    const { parts } = this;
    this.parts = [];
    [this.bytes, this.values] = [0, 0];
    return parts;
  }
}

/** The parts of a request, as many as its limits allow. */
import { MAX_BYTES } from '../../../../src/check/request-limits';
import { type RequestPart, RequestParts } from '../../../../src/commands/operators/request-parts';
import { bodyOf } from '../../../../src/domain/event/request-body';

const part = (bytes: number, values = 1): RequestPart => ({ bytes: Buffer.alloc(bytes), values });
const MANY = { events: 1_000, values: 1_000 };

function filled(parts: readonly RequestPart[], limits = MANY): RequestParts<RequestPart> {
  const request = new RequestParts(limits);
  for (const each of parts) request.add(each);
  return request;
}

test('a request has at most the events of its limit', () => {
  const request = filled([part(1)], { ...MANY, events: 2 });
  expect(request.fits(part(1))).toBe(true);
  request.add(part(1));
  expect(request.fits(part(1))).toBe(false);
});

test('a request has at most the values of its limit, with those around its events', () => {
  const request = filled([part(1, 5)], { ...MANY, values: 10 });
  expect(request.fits(part(1, 3))).toBe(true);
  expect(request.fits(part(1, 4))).toBe(false);
});

test('the largest body that fits has exactly the bytes of the limit', () => {
  const first = part(100);
  const around = bodyOf([first.bytes, Buffer.alloc(0)]).length;
  const request = filled([first]);
  expect(request.fits(part(MAX_BYTES - around))).toBe(true);
  expect(request.fits(part(MAX_BYTES - around + 1))).toBe(false);
});

test('a taken request leaves room for the next one', () => {
  const parts = [part(MAX_BYTES / 2), part(10)];
  const request = filled(parts);
  expect(request.take()).toEqual(parts);
  expect(request.isEmpty).toBe(true);
  expect(request.fits(part(MAX_BYTES / 2))).toBe(true);
});

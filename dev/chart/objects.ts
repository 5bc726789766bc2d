/** Objects of Kubernetes, checked as they are read. */
import { isObject } from '../../src/lib/json';

/** An object of Kubernetes, or a part of one. */
export type Manifest = Readonly<Record<string, unknown>>;

/** The value at a path such as spec.template.spec; undefined if there is none. */
export function at(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((inner, key) => (isObject(inner) ? inner[key] : undefined), value);
}

export function listAt(value: unknown, path: string): readonly unknown[] {
  const list = at(value, path);
  return Array.isArray(list) ? list : [];
}

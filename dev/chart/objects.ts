/** Objects of Kubernetes, checked as they are read. */
import { isNode, type SyntaxNode } from '../syntax';

/** An object of Kubernetes, or a part of one. */
export type Manifest = SyntaxNode;

/** The value at a path such as spec.template.spec; undefined if there is none. */
export function at(value: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((inner, key) => (isNode(inner) ? inner[key] : undefined), value);
}

export function listAt(value: unknown, path: string): readonly unknown[] {
  const list = at(value, path);
  return Array.isArray(list) ? list : [];
}

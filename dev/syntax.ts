/**
 * TypeScript as its syntax, for the generated files and for the test that reads the imports. With syntax
 * instead of regular expressions, neither a comment nor a text is mistaken for code.
 */
import { parseSync } from '@swc/core';
import { isObject } from '../src/lib/json';

/** A node, or any other object inside one. Each field is checked when it is read. */
export type SyntaxNode = Readonly<Record<string, unknown>>;

export interface Source {
  /** Every node, each before the nodes inside it. */
  readonly nodes: readonly SyntaxNode[];
  lineOf(node: SyntaxNode): number;
}

/** @throws if the text is not TypeScript */
export function parseSource(text: string): Source {
  const nodes: SyntaxNode[] = [];
  collectNodes(parseSync(text, { syntax: 'typescript', target: 'es2022' }), nodes);
  const bytes = Buffer.from(text);
  return {
    nodes,
    lineOf: ({ span }) => {
      // Positions count bytes from 1.
      const end = (isObject(span) && typeof span.start === 'number' ? span.start : 1) - 1;
      let line = 1;
      for (let at = bytes.indexOf(LINE_FEED); at >= 0 && at < end; at = bytes.indexOf(LINE_FEED, at + 1))
        line++;
      return line;
    },
  };
}

const LINE_FEED = 0x0a;

function collectNodes(value: unknown, nodes: SyntaxNode[]): void {
  if (Array.isArray(value)) {
    for (const element of value) collectNodes(element, nodes);
  } else if (isObject(value)) {
    if (typeof value.type === 'string') nodes.push(value);
    // Most values of a node are texts, numbers and its place, which hold no node.
    for (const key in value)
      if (key !== 'span' && typeof value[key] === 'object') collectNodes(value[key], nodes);
  }
}

/** The name of an identifier, or undefined for another value. */
export function nameOf(value: unknown): string | undefined {
  return isObject(value) && value.type === 'Identifier' && typeof value.value === 'string'
    ? value.value
    : undefined;
}

/** The text of a string literal, or undefined for another value. */
export function textOf(value: unknown): string | undefined {
  return isObject(value) && value.type === 'StringLiteral' && typeof value.value === 'string'
    ? value.value
    : undefined;
}

/** The expression of a call's argument. */
export function argumentOf(call: SyntaxNode, index: number): unknown {
  const argument: unknown = Array.isArray(call.arguments) ? call.arguments[index] : undefined;
  return isObject(argument) ? argument.expression : undefined;
}

/** The object and the property of `object.property` and `object['property']`. */
export function memberOf(value: unknown): { object: unknown; property: string | undefined } | undefined {
  if (!isObject(value) || value.type !== 'MemberExpression') return undefined;
  const { object, property } = value;
  const computed = isObject(property) && property.type === 'Computed' ? property.expression : undefined;
  return { object, property: nameOf(property) ?? textOf(computed) };
}

/** Whether a value is the expression `process.env`. */
export function isEnvironment(value: unknown): boolean {
  const member = memberOf(value);
  return member?.property === 'env' && nameOf(member.object) === 'process';
}

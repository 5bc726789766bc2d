/** The examples of schemas/examples, a button each, in a group for each verdict and reason. */

import { nameOf } from '../domain/verdict/reasons';
import { type Example, examples } from './data';
import { element } from './elements';

/** The bytes of an example: the file itself, or one event a line with those that come before it. */
export function exampleBytes({ bytes, after = [] }: Example): Buffer {
  const own = fromBase64(bytes);
  if (after.length === 0) return own;
  const before = examples.filter(({ file }) => after.includes(file)).map((each) => fromBase64(each.bytes));
  const lines = [...before, own].map((each) => `${JSON.stringify(JSON.parse(each.toString()))}\n`);
  return Buffer.from(lines.join(''));
}

function fromBase64(text: string): Buffer {
  return Buffer.from(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
}

/** Fills the list. @returns a function that marks one example as chosen, or none */
export function listExamples(
  list: HTMLElement,
  choose: (example: Example) => void,
): (chosen: Example | undefined) => void {
  const buttons = new Map<Example, HTMLButtonElement>();
  for (const [name, members] of Map.groupBy(examples, nameOf)) {
    const items = members.map((example) => {
      const button = element(
        'button',
        { type: 'button', 'aria-pressed': 'false' },
        example.says,
        element('span', { class: 'file' }, example.file),
      );
      button.addEventListener('click', () => choose(example));
      buttons.set(example, button);
      return element('li', {}, button);
    });
    const heading = element('summary', {}, `${name} (${members.length})`);
    list.append(element('details', {}, heading, element('ul', {}, ...items)));
  }
  return (chosen) => {
    for (const [example, button] of buttons) button.setAttribute('aria-pressed', String(example === chosen));
  };
}

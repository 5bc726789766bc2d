import fc from 'fast-check';
import { linkTo } from '../../../src/console/parameters';
import { html } from '../../../src/markup/html';
import { anyCharacter } from '../../support/texts';

const text = (value: string) => String(html`<p>${value}</p>`);
const attribute = (value: string) => String(html`<a href="${value}">x</a>`);

test('a value in a text or in an attribute begins no tag, no attribute and no reference', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.oneof(anyCharacter, fc.constantFrom(...`<>&"'`)) }), (value) => {
      expect(text(value).slice(3, -4)).not.toMatch(/[<>"']|&(?!(amp|lt|gt|quot|#39);)/);
      expect(attribute(value).slice(9, -7)).not.toMatch(/[<>"']|&(?!(amp|lt|gt|quot|#39);)/);
    }),
  );
});

test('a value keeps its characters', () => {
  expect(text(`<b>&"'`)).toBe('<p>&lt;b&gt;&amp;&quot;&#39;</p>');
});

test('HTML stays HTML, in a list too, and nothing is nothing', () => {
  expect(String(html`${html`<b>${'<'}</b>`}${[html`<i>1</i>`, '&', 2]}${null}${undefined}${false}`)).toBe(
    '<b>&lt;</b><i>1</i>&amp;2',
  );
});

test.each([
  ['without quotation marks', () => html`<a href=${'/x'}>x</a>`],
  ['as an attribute', () => html`<a ${'onclick=alert(1)'}>x</a>`],
  ['as the name of a tag', () => html`<${'script'}>x`],
  ['in a list', () => html`<a ${['hidden']}>x</a>`],
])('a text in a tag %s throws', (_, template) => {
  expect(template).toThrow('needs quotation marks');
});

test('an object that only looks like HTML is no HTML', () => {
  const forged: string = JSON.parse('{"text":"<script>"}');
  expect(() => html`<p>${forged}</p>`).toThrow(TypeError);
});

test('an address has its values encoded, and leaves empty ones out', () => {
  expect(linkTo('/event', { feed: '', id: 'a b&c=d#"<' })).toBe('/event?id=a%20b%26c%3Dd%23%22%3C');
});

/** Checks of the texts of a profile. */
import type { Check } from '../reference-file/checks';
import { placesIn } from './template';

export const anyText: Check = (text) =>
  text === '' ? { message: 'The text is empty.', remedy: 'Write the value.' } : undefined;

export const checkHeader: Check = (text) =>
  /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(text)
    ? undefined
    : { message: 'HTTP allows no such header name.', remedy: 'Use letters, digits and hyphens.' };

export const checkPath: Check = (text) =>
  /^\/[^\s?#]*$/.test(text)
    ? undefined
    : { message: 'The path is no path of a URL.', remedy: 'Begin with "/", without "?", "#" and spaces.' };

export const checkField: Check = (text) =>
  /^[^.\s]+(\.[^.\s]+)*$/.test(text)
    ? undefined
    : {
        message: 'This is no path of a field.',
        remedy: 'Write keys with dots between them, such as data.balance.',
      };

/** Checks the address of a whole endpoint, which may have a query. */
export const checkEndpoint: Check = (text) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.hash !== '') {
    const message = 'This is no address of HTTP.';
    return { message, remedy: 'Write http:// or https://, a host, and a path.' };
  }
  if (url.username === '' && url.password === '') return undefined;
  return { message: 'The URL holds credentials.', remedy: 'Put them under "headers" or "signing".' };
};

/** Checks the address of a wallet, to which the paths of the actions are added. */
export const checkUrl: Check = (text) =>
  checkEndpoint(text) ??
  (text.includes('?')
    ? { message: 'The address of the wallet has a query.', remedy: 'Remove the part from "?" on.' }
    : undefined);

/** Checks the value of X-API-Key-Id. */
export const checkKeyId: Check = (text) =>
  /^[\x20-\x7e]{1,255}$/.test(text)
    ? undefined
    : { message: 'HTTP allows no such id of a key.', remedy: 'Use 1 to 255 printable ASCII characters.' };

export const checkHeaderValue: Check = (text) =>
  /^[\t\x20-\x7e]*$/.test(text)
    ? undefined
    : { message: 'HTTP allows no such value of a header.', remedy: 'Use printable ASCII characters.' };

const SIGNED_PLACES = ['timestamp', 'method', 'path', 'request_id', 'body'];

export const checkSignedContent: Check = (text) => {
  const unknown = placesIn(text).find((name) => !SIGNED_PLACES.includes(name));
  if (unknown !== undefined) {
    return {
      message: `The place {{${unknown}}} is unknown.`,
      remedy: `The places are ${SIGNED_PLACES.map((name) => `{{${name}}}`).join(' ')}.`,
    };
  }
  if (placesIn(text).includes('body')) return undefined;
  return { message: 'The signature covers no body.', remedy: 'Write {{body}} in the signed text.' };
};

/** Compares the answer to a call with the answers that its scenario allows, and puts both in words. Pure. */
import type { WalletAnswer, WalletReply } from '../wallet/answer';
import type { Expectation } from './scenario';

/** Whether the answer is one that the scenario allows. */
export function isExpected(expected: Expectation, answer: WalletAnswer): boolean {
  switch (expected.type) {
    case 'unread':
      return true;
    case 'ok':
      return answer.type === 'ok';
    case 'refused':
      return answer.type === 'refused' && expected.codes.includes(answer.code);
    case 'ok_or_refused':
      return answer.type === 'ok' || (answer.type === 'refused' && expected.codes.includes(answer.code));
    case 'not_ok':
      return answer.type === 'refused' || (answer.type === 'no_answer' && answer.status !== null);
    case 'never':
      return answer.type === 'ok' || (answer.type === 'refused' && !expected.codes.includes(answer.code));
  }
}

export function describeExpectation(expected: Expectation): string {
  const codes = 'codes' in expected ? expected.codes.join(' or ') : '';
  switch (expected.type) {
    case 'unread':
      return 'nothing: the connection was cut';
    case 'ok':
      return 'a success';
    case 'refused':
      return `a refusal with ${codes}`;
    case 'ok_or_refused':
      return `a success, or a refusal with ${codes}`;
    case 'not_ok':
      return 'a refusal, or a status such as 401';
    case 'never':
      return `a success, or a refusal with another code than ${codes}`;
  }
}

const CAUSES: Readonly<Record<Extract<WalletAnswer, { type: 'no_answer' }>['cause'], string>> = {
  timeout: 'no answer within 5 s',
  unreachable: 'no connection, or the connection broke before an answer',
  interrupted: 'no answer: the check was interrupted',
  bare_status: 'a status without the error envelope, which counts as no answer',
  too_large: 'a body of more than 64 KiB, which counts as no answer',
  cut_off: 'a body that is cut off, which counts as no answer',
  not_json: 'a body that is no JSON, which counts as no answer',
  no_envelope: 'JSON that is neither a success nor the error envelope',
  unknown_code: 'a code that is none of the 15',
  status_not_allowed: 'a status that the contract does not allow with the code',
  code_not_allowed: 'a code that the contract excludes for this action',
};

export function describeAnswer(answer: WalletAnswer): string {
  switch (answer.type) {
    case 'ok':
      return 'a success';
    case 'refused':
      return `a refusal with ${answer.code}`;
    case 'retry':
      return `${answer.code} to each of the attempts`;
    case 'no_answer':
      return `${CAUSES[answer.cause]}${answer.code === null ? '' : ` (${answer.code})`}`;
  }
}

const SHOWN_CHARACTERS = 600;

/** The reply as it came, for the report. @param hide removes tokens, before the text is cut off */
export function describeReply(reply: WalletReply, hide: (text: string) => string): string {
  if (reply.type === 'nothing') return `nothing (${reply.cause})`;
  const { status, body, ms } = reply;
  const text =
    typeof body === 'string' ? `(body ${body.replace('_', ' ')})` : hide(Buffer.from(body).toString('utf8'));
  const shown = text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text;
  return `HTTP ${status} after ${Math.round(ms)} ms: ${shown}`;
}

/** The value that a share of the times do not exceed. */
export function percentile(times: readonly number[], share: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

/** schemas/CONTRACT.md: the tables of the contract with operators. */
import { WALLET_ACTION_NAMES, WALLET_ACTIONS } from '../../src/contract/actions';
import { type CodeRestriction, ERROR_CODES, walletCode } from '../../src/contract/error-codes';
import { LIMIT_NAMES, LIMITS } from '../../src/contract/limits';
import {
  OPERATOR_OPERATION_NAMES,
  OPERATOR_OPERATIONS,
  OPERATOR_PATH_PREFIXES,
} from '../../src/contract/operations';
import { SERVICE_ERROR_NAMES, serviceError } from '../../src/contract/service-errors';
import { endingOf, type WalletEnding } from '../../src/wallet/policy';
import { code, codes, document, generatedFrom, paragraph, table } from './markdown';

const RESTRICTIONS: Readonly<Record<CodeRestriction, string>> = {
  any_call: 'any call',
  new_bets_only: 'new bets only',
  never_rollback_or_reconcile: 'never a rollback or a reconcile',
};

const ENDINGS: Readonly<Record<WalletEnding, string>> = {
  roll_back: 'a rollback of the bet',
  reconcile: 'resent for 72 h, then a reconcile',
  give_up: 'given up: nothing is uncertain',
  unresolved: 'resent for 72 h, then left to people',
};

export function renderContract(command: string): string {
  return document([
    generatedFrom('src/contract/ and src/wallet/policy.ts', command),
    '# The contract with operators, in tables',
    paragraph(
      '[The contract](../docs/contract.md) explains these tables. The rows are shown by the documents that operators have; the',
      'last column of the actions is the policy of this project.',
    ),
    '## Errors of operator calls',
    paragraph(
      `The paths of operator calls begin with ${codes(OPERATOR_PATH_PREFIXES)}. Each error has a status other than 200 and`,
      'the body of [operator.error.v2.json](operator.error.v2.json). Retry 429, 503 and 504 with backoff, and no other status.',
    ),
    table(
      ['status', 'code', 'retry', 'the message begins with', 'meaning'],
      SERVICE_ERROR_NAMES.map(serviceError).map((row) => [
        String(row.status),
        row.codes.map(code).join(' or '),
        row.isRetryable ? '**yes**' : 'no',
        row.tokens.length === 0 ? 'none' : codes(row.tokens),
        row.meaning,
      ]),
    ),
    '## Codes of the wallet',
    paragraph(
      'A wallet answers a call that fails with HTTP 200 and the body of [wallet.error.v2.json](wallet.error.v2.json). Some codes',
      'may have another status, with the same body.',
    ),
    table(
      ['code', 'the service retries', 'statuses with the body', 'on', 'return it when'],
      ERROR_CODES.map((name) => {
        const row = walletCode(name);
        return [
          code(name),
          row.isRetried ? '**yes**' : 'no',
          row.statuses.join(', '),
          RESTRICTIONS[row.restriction],
          row.meaning,
        ];
      }),
    ),
    '## Actions of the wallet',
    paragraph(
      'The service calls the wallet with the body of [wallet.request.v2.json](wallet.request.v2.json). The names of the first column are ours,',
      'for profiles and reports. A path that is not shown comes from a profile.',
    ),
    table(
      ['name', 'action', 'path', 'new bet', 'without an answer'],
      WALLET_ACTION_NAMES.map((name) => {
        const { purpose, path, isNewBet } = WALLET_ACTIONS[name];
        return [
          code(name),
          purpose,
          path === null ? 'not shown' : code(path),
          isNewBet ? 'yes' : 'no',
          ENDINGS[endingOf(name)],
        ];
      }),
    ),
    '## Operations of operators',
    paragraph('Methods, paths, parameters and payloads are not shown.'),
    table(
      ['operation', 'shown behaviour'],
      OPERATOR_OPERATION_NAMES.map((name) => [code(name), OPERATOR_OPERATIONS[name] ?? 'the name alone']),
    ),
    '## Limits and windows',
    table(
      ['limit', 'value', 'meaning'],
      LIMIT_NAMES.map((name) => {
        const { value, unit, meaning } = LIMITS[name];
        return [
          code(name),
          unit === 'factor' ? `x ${value}` : `${value.toLocaleString('en')} ${unit}`,
          meaning,
        ];
      }),
    ),
  ]);
}

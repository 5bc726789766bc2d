/** `promo-intake grant`: grants database roles the permissions that they need, and no more. */

import { DONE, FAILED, USAGE } from '../../cli/exit-codes';
import { readConfig } from '../../config/config';
import type { ConnectRight } from '../../ledger/connect-right';
import { type Grantee, grantRoles, grantStatements, UnfitRole } from '../../ledger/roles';

/** @param print only print the statements, for another person to run @returns the exit code */
export async function grant(grantees: readonly Grantee[], print: boolean): Promise<number> {
  if (grantees.length === 0) {
    console.error(
      'no role is given; add NAME for one of --writer, --reader, --janitor, --maintainer, --reconciler, --attributor, --wallet, --rollups, --pseudonyms, --promotions or --completions',
    );
    return USAGE;
  }
  if (print) {
    for (const statement of ['begin', ...grantStatements(grantees), 'commit']) console.log(`${statement};`);
    for (const line of CONNECT_HINT) console.log(`-- ${line}`);
    return DONE;
  }
  const config = readConfig(process.env, ['DATABASE']);
  let right: ConnectRight;
  try {
    right = await grantRoles(config.DATABASE, grantees);
  } catch (error) {
    if (!(error instanceof UnfitRole)) throw error;
    console.error(`${error.message}\nnothing was granted`);
    return FAILED;
  }
  for (const { role, name } of grantees) console.log(`${role}: ${name}`);
  for (const line of linesOf(right)) console.log(line);
  return DONE;
}

const CONNECT_HINT = [
  'Any role of the server may connect to a database by default. As the owner of the database, revoke that:',
  'grant connect on database NAME to (these roles, the owner of the tables and all others that use it);',
  'revoke connect on database NAME from public;',
];

function linesOf({ isRevoked, reasons, statements }: ConnectRight): string[] {
  if (reasons.length === 0) return ['no role may connect to the database without a grant'];
  return [
    isRevoked
      ? `not every role may connect to the database: ${reasons.join('; ')}`
      : `any role of the server may still connect to the database: ${reasons.join('; ')}`,
    'As the owner of the database, check the roles in these statements, and run:',
    ...statements.map((statement) => `  ${statement};`),
  ];
}

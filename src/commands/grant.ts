/** `promo-intake grant`: gives roles of the database what they need and nothing more. */
import { readConfig } from '../config';
import { type Grantee, grantRoles, grantStatements, UnfitRole } from '../ledger/roles';
import { DONE, FAILED, USAGE } from './exit-codes';

/** @param print only prints the statements, for somebody else to run @returns the exit code */
export async function grant(grantees: readonly Grantee[], print: boolean): Promise<number> {
  if (grantees.length === 0) {
    console.error('name a role: --writer NAME, --reader NAME, --janitor NAME or --maintainer NAME');
    return USAGE;
  }
  if (print) {
    for (const statement of ['begin', ...grantStatements(grantees), 'commit']) console.log(`${statement};`);
    return DONE;
  }
  const config = readConfig(process.env, ['DATABASE']);
  try {
    await grantRoles(config.DATABASE, grantees);
  } catch (error) {
    if (!(error instanceof UnfitRole)) throw error;
    console.error(`${error.message}\nnothing was granted`);
    return FAILED;
  }
  for (const { role, name } of grantees) console.log(`${name} is a ${role}`);
  return DONE;
}

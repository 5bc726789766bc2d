/** A migrator to be killed. */
import { runMigrations } from '../../src/ledger/migrate';

void runMigrations(process.env.DATABASE_URL ?? '');

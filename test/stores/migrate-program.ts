/** A migrator to be killed: see migrations.test.ts. */
import { runMigrations } from '../../src/ledger/migrate';

void runMigrations(process.env.DATABASE_URL ?? '');

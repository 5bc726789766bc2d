/** A migrator to be killed: see migrations.test.ts. */
import { migrate } from '../../src/ledger/migrate';

void migrate(process.env.DATABASE_URL ?? '');

/** A migrator to be killed: see migrations.test.ts. */
import { migrate } from '../../src/ledger/migrate';

process.stdout.write('begins\n');
migrate(process.env.DATABASE_URL ?? '').then(() => process.stdout.write('done\n'));

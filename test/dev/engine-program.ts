/** Prints why tests cannot use the container engine of this machine, or nothing: see engines.ts. */
import { engineWithImages } from './engines';

engineWithImages().then(
  (found) => {
    process.stdout.write('problem' in found ? found.problem : '');
    process.exit();
  },
  (error: unknown) => {
    process.stderr.write(`${error}\n`);
    process.exit(1);
  },
);

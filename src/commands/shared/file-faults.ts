/** The faults of a file that keep a command from its work. */
import { counted } from '../../lib/printable';
import { describeFileFault, type FileFault } from '../../reference-file/report';

/**
 * @param outcome such as "nothing was started"
 * @param most the most faults that are printed. Their number names all of them
 */
export function printFileFaults(
  file: string,
  faults: readonly FileFault[],
  outcome: string,
  most = Number.POSITIVE_INFINITY,
): void {
  for (const fault of faults.slice(0, most)) console.error(describeFileFault(file, fault));
  console.error(`${file}: ${counted(faults.length, 'fault')}; ${outcome}`);
}

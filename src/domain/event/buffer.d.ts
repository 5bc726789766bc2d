/**
 * The method behind toString('latin1'), without its search for the encoding. Node has it; Node's types do
 * not.
 */
interface Buffer {
  latin1Slice(start: number, end: number): string;
}

/** What toString('latin1') calls, without its search for the encoding. Node has it, its types have not. */
interface Buffer {
  latin1Slice(start: number, end: number): string;
}

/** Finds the word that a misspelled word was meant to be. */

/**
 * The candidate that is most similar to the word, if typing errors explain the difference.
 *
 * @param mostEdits the largest number of typing errors between the word and a candidate
 * @param formOf the form of both that is compared
 */
export function nearest(
  word: string,
  candidates: readonly string[],
  mostEdits: (candidate: string) => number,
  formOf: (text: string) => string = (text) => text,
): string | undefined {
  const [best] = candidates
    .map((candidate) => ({ candidate, edits: editsBetween(formOf(word), formOf(candidate)) }))
    .filter(({ candidate, edits }) => edits <= mostEdits(candidate))
    .sort((a, b) => a.edits - b.edits);
  return best?.candidate;
}

/** The number of letters to insert, remove or replace (Levenshtein). */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

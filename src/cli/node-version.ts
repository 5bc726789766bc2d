/**
 * The versions of Node.js that the program runs on: those whose node:zlib has zstd. package.json has the same
 * versions as `engines`.
 */

/**
 * The problem with this version of Node.js; undefined where the program runs on it.
 *
 * @param version such as 24.20.0
 */
export function nodeProblem(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const isNewEnough = major >= 24 || (major === 23 && minor >= 8) || (major === 22 && minor >= 15);
  if (isNewEnough) return undefined;
  return `this is Node.js ${version}, and promo-intake needs 22.15 or newer (of line 23, 23.8 or newer)`;
}

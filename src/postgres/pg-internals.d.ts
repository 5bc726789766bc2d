/** What pg 8.23.1 does not declare and we reach into. The version is pinned; tests notice when it moves. */
declare module 'pg/lib/utils' {
  /** A value as a parameter is sent. */
  export function prepareValue(value: unknown): Buffer | string | null;
}

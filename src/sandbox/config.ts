/** The file of a sandbox: its operators with their keys, games, wallets and intakes. */

export interface SandboxKey {
  readonly id: string;
  readonly isReadOnly: boolean;
  /** Beside the file of the sandbox. */
  readonly secretFile: string;
}

export interface SandboxIntake {
  /** The address of the webhook, without /v1/events. */
  readonly url: string;
  readonly connection: string;
  readonly secretFile: string;
  /** A file with the address of its database, for attributions. Null: the database of the sandbox. */
  readonly databaseFile: string | null;
}

export interface SandboxOperator {
  readonly id: string;
  /** A suspended operator gets 403. */
  readonly isActive: boolean;
  readonly keys: readonly SandboxKey[];
  /** The players that exist. Null: all. */
  readonly players: readonly string[] | null;
  /** The brands, of which a launch names one. Null: one brand, which no launch names. */
  readonly brands: readonly string[] | null;
  /** The file with the profile of the wallet. Null: no rounds. */
  readonly walletFile: string | null;
  /** Where events go. Null: nowhere. */
  readonly intake: SandboxIntake | null;
}

export interface SandboxGame {
  readonly id: string;
  readonly isDemoSupported: boolean;
  /** A game that is not available gets 403. */
  readonly isAvailable: boolean;
}

export interface SandboxConfig {
  readonly operators: readonly SandboxOperator[];
  readonly games: readonly SandboxGame[];
  /** The time after which a session expires. */
  readonly sessionSeconds: number;
}

export const DEFAULT_SESSION_SECONDS = 3_600;

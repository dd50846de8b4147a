/** What kluctl's own service allows, and how long anybody may take. */

const mebi = 1024 ** 2;

export interface OverrideLimits {
  /** Of a packed directory. */
  readonly archiveBytes: number;
  /** Of what it holds. */
  readonly unpackedBytes: number;
  readonly entries: number;
  /** Command lines and other replicas that are connected at a time. */
  readonly connections: number;
  /** How long a client may take to say who it is. */
  readonly handshakeMs: number;
  /** How long a client may take to pack and send a directory. */
  readonly answerMs: number;
  /** A client that is not heard of for so long is asked whether it is still there. */
  readonly keepaliveMs: number;
}

export const defaultLimits: OverrideLimits = {
  archiveBytes: 32 * mebi,
  unpackedBytes: 64 * mebi,
  entries: 50_000,
  connections: 100,
  handshakeMs: 10_000,
  answerMs: 120_000,
  keepaliveMs: 30_000,
};

/** What an archive is sent in. */
export function messageBytes({ archiveBytes }: OverrideLimits): number {
  return archiveBytes + 1024;
}

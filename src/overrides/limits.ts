/** What kluctl's own service allows, and how long anybody may take. */

const mebi = 1024 ** 2;

export interface OverrideLimits {
  /** Of a packed directory. */
  readonly archiveBytes: number;
  /** Of what it holds. */
  readonly unpackedBytes: number;
  readonly entries: number;
  /** Of all packed directories that are received or unpacked at a time. */
  readonly bytesInFlight: number;
  /** That a connection may send before it is known who is there, and a client that was not asked for anything a minute. */
  readonly unaskedBytes: number;
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
  bytesInFlight: 128 * mebi,
  unaskedBytes: 64 * 1024,
  connections: 100,
  handshakeMs: 10_000,
  answerMs: 120_000,
  keepaliveMs: 30_000,
};

/** What an archive is sent in. */
export function messageBytes({ archiveBytes }: OverrideLimits): number {
  return archiveBytes + 1024;
}

/** What an archive takes on a connection: TLS and HTTP/2 add to each 16 KiB of it. */
export function answerBytes(limits: OverrideLimits): number {
  return 1.1 * messageBytes(limits) + limits.unaskedBytes;
}

/**
 * How many archives may be in memory. Half of the room is for what this server unpacks, half for what it passes on to
 * other replicas: two that wait for each other's would wait for ever.
 */
export function archivesInFlight({ bytesInFlight, archiveBytes }: OverrideLimits): number {
  return Math.max(1, Math.floor(bytesInFlight / 2 / archiveBytes));
}

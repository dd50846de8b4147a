/** Limits of the source-override service: the sizes are those of kluctl's own service. */

const mebi = 1024 ** 2;

export interface OverrideLimits {
  /** Size of a packed directory. */
  readonly archiveBytes: number;
  /** Size of its unpacked content. */
  readonly unpackedBytes: number;
  readonly entries: number;
  /** Total size of the packed directories that are being received or unpacked. */
  readonly bytesInFlight: number;
  /** What a connection may send before it is authenticated, and afterwards per minute without a request. */
  readonly unaskedBytes: number;
  /** Concurrent connections of command lines and other replicas. */
  readonly connections: number;
  /** How long a client may take to authenticate. */
  readonly handshakeMs: number;
  /** How long a client may take to pack and send a directory. */
  readonly answerMs: number;
  /** A client that has been silent for this long is pinged. */
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

/** Maximum size of the message with an archive. */
export function messageBytes({ archiveBytes }: OverrideLimits): number {
  return archiveBytes + 1024;
}

/** Bytes that an archive needs on a connection: TLS and HTTP/2 have an overhead for each 16 KiB. */
export function answerBytes(limits: OverrideLimits): number {
  return 1.1 * messageBytes(limits) + limits.unaskedBytes;
}

/**
 * How many archives may be in memory. Half of the memory is for archives that this server unpacks, half for those that
 * it forwards to other replicas: with a shared limit, two replicas that wait for each other would wait forever.
 */
export function archivesInFlight({ bytesInFlight, archiveBytes }: OverrideLimits): number {
  return Math.max(1, Math.floor(bytesInFlight / 2 / archiveBytes));
}

/** Bounds the connections of a server that strangers can reach, without turning anybody away. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { senderGroup } from "../address.ts";

export interface ConnectionLimits {
  readonly most: number;
  /** From one address, unless it is a proxy's. */
  readonly mostOfOne: number;
  readonly isProxy: (address: string) => boolean;
  /** So many have been closed to make room since it was called last. */
  readonly onFull: (closed: number) => void;
}

const reportEveryMs = 60_000;

/** Express leaves the whole body here once it is received and unpacked: only its signature is left to check then. */
interface Received extends IncomingMessage {
  readonly body?: unknown;
}

/**
 * A new connection is always taken. If there are too many, one of the others is closed, the one whose last request began
 * longest ago: one that sends slowly, or nothing, grows old. Spared are those over which something genuine has come, as
 * long as there are others, and always those whose whole body is there and not answered.
 */
export function boundConnections(server: Server, { most, mostOfOne, isProxy, onFull }: ConnectionLimits): void {
  /** The oldest first. */
  const open = new Set<Socket>();
  const groups = new Map<Socket, string>();
  const counts = new Map<string, number>();
  const current = new Map<Socket, { readonly req: Received; readonly res: ServerResponse }>();
  /** They had an answer of 202. */
  const genuine = new Set<Socket>();
  let [closed, reportedAt] = [0, -Infinity];

  function forget(socket: Socket): void {
    const group = groups.get(socket);
    if (group === undefined) return;
    for (const all of [open, groups, current, genuine]) all.delete(socket);
    const left = (counts.get(group) ?? 0) - 1;
    if (left > 0) counts.set(group, left);
    else counts.delete(group);
  }

  function waitsForAnswer(socket: Socket): boolean {
    const exchange = current.get(socket);
    return exchange !== undefined && exchange.req.body !== undefined && !exchange.res.writableEnded;
  }

  function findOldest(latest: Socket, group: string | undefined): Socket | undefined {
    let spared: Socket | undefined;
    for (const socket of open) {
      if (socket === latest || (group !== undefined && groups.get(socket) !== group)) continue;
      if (waitsForAnswer(socket)) continue;
      if (!genuine.has(socket)) return socket;
      spared ??= socket;
    }
    return spared;
  }

  function makeRoomFor(latest: Socket, group?: string): void {
    const oldest = findOldest(latest, group);
    if (oldest === undefined) return;
    forget(oldest);
    oldest.destroy();
    closed++;
    if (performance.now() - reportedAt < reportEveryMs) return;
    onFull(closed);
    [closed, reportedAt] = [0, performance.now()];
  }

  server.on("connection", (socket: Socket) => {
    const address = socket.remoteAddress ?? "";
    const group = senderGroup(address);
    const count = (counts.get(group) ?? 0) + 1;
    open.add(socket);
    groups.set(socket, group);
    counts.set(group, count);
    socket.once("close", () => forget(socket));
    if (count > mostOfOne && !isProxy(address)) makeRoomFor(socket, group);
    else if (open.size > most) makeRoomFor(socket);
  });
  server.on("request", (req, res) => {
    const { socket } = req;
    if (!groups.has(socket)) return;
    open.delete(socket);
    open.add(socket);
    current.set(socket, { req, res });
    if (!genuine.has(socket))
      res.once("finish", () => res.statusCode === 202 && open.has(socket) && genuine.add(socket));
  });
}

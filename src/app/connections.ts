/** Limits the connections of a public server without rejecting new ones. */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { senderGroup } from "../kit/address.ts";

export interface ConnectionLimits {
  readonly most: number;
  /** Limit per address, except for proxies. */
  readonly mostOfOne: number;
  readonly isProxy: (address: string) => boolean;
  /** Called with the number of connections closed since the last call. */
  readonly onFull: (closed: number) => void;
}

const reportEveryMs = 60_000;

/** Express sets `body` once the whole body is received and unpacked: then only its signature is left to check. */
interface Received extends IncomingMessage {
  readonly body?: unknown;
}

/**
 * Always accepts a new connection. If there are too many, it closes the one whose last request started longest ago: a
 * connection that sends slowly, or nothing, grows old. Connections that delivered something authentic are closed only
 * if there are no others; those with a complete body and no response yet are never closed.
 */
export function boundConnections(server: Server, { most, mostOfOne, isProxy, onFull }: ConnectionLimits): void {
  /** Oldest first. */
  const open = new Set<Socket>();
  const groups = new Map<Socket, string>();
  const counts = new Map<string, number>();
  const current = new Map<Socket, { readonly req: Received; readonly res: ServerResponse }>();
  /** Connections that got a response with status 202. */
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

/**
 * The service that `kluctl gitops` connects to through a port-forward, to offer the files of its user's machine. The
 * server that handles the request may not be the one with the connection, so other servers send their requests here,
 * too.
 */
import { timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import type * as Grpc from "@grpc/grpc-js";
import type { sendUnaryData, ServerDuplexStream, ServerUnaryCall, ServiceError } from "@grpc/grpc-js";
import { withTimeout } from "../kit/deadline.ts";
import { createLimit } from "../kit/limit.ts";
import type { Logger } from "../log.ts";
import type { KeyMaterial } from "../model.ts";
import { type OverrideClient, ClientError, createClientSession } from "./client-session.ts";
import { createGate, type Gate } from "./gate.ts";
import { answerBytes, archivesInFlight, messageBytes, type OverrideLimits } from "./limits.ts";
import type { ProxyRequest, ProxyResponse, ResolveResponse } from "./messages.ts";
import { type GrpcPackage, proxyService } from "./service.ts";

export interface ProxyServerDeps {
  readonly grpc: GrpcPackage;
  /** Default: all addresses of this machine. */
  readonly host?: string | undefined;
  readonly port: number;
  readonly limits: OverrideLimits;
  readonly log: Logger;
}

export interface ProxyServer {
  /** The actual port if 0 was requested. */
  readonly port: number;
  /** Starts to accept connections. Before that they are refused, because clients could not authenticate the server. */
  serve(material: KeyMaterial): void;
  /** Finds a client that is connected to this server. */
  find(id: string): OverrideClient | undefined;
  stop(): Promise<void>;
}

/** Throws the operating system's error if the address cannot be used. */
export async function startProxyServer({ grpc, host, port, limits, log }: ProxyServerDeps): Promise<ProxyServer> {
  const { status } = grpc;
  const clients = new Map<string, OverrideClient>();
  /** Unauthenticated connections, the oldest first; and all connections. */
  const [strangers, sockets] = [new Set<Socket>(), new Set<Socket>()];
  const passingOn = createLimit(archivesInFlight(limits));
  let controllerSecret: Buffer | undefined;
  let serveConnection: ((socket: Socket) => void) | undefined;

  function proxyStream(call: ServerDuplexStream<ProxyResponse, ProxyRequest>, gate: Gate, known: () => void): void {
    let mine: OverrideClient | undefined;
    const session = createClientSession({
      send(message) {
        if (message.request) gate.allow(answerBytes(limits));
        call.write(message);
      },
      accept(client) {
        if (clients.has(client.id)) throw new ClientError("duplicate server id");
        mine = client;
        known();
        clients.set(client.id, client);
        clearTimeout(late);
        log.debug({ client: client.id.slice(0, 8) }, "a client offers source overrides");
      },
    });
    const end = (error: Partial<ServiceError>) => call.destroyed || call.emit("error", error);
    const late = setTimeout(() => {
      end({ code: status.DEADLINE_EXCEEDED, details: "the client did not identify itself" });
    }, limits.handshakeMs);
    const over = () => {
      clearTimeout(late);
      if (mine) clients.delete(mine.id);
      mine = undefined;
      session.closed();
    };
    call.on("data", (message: ProxyResponse) => {
      try {
        session.receive(message);
      } catch (error) {
        if (!(error instanceof ClientError)) throw error;
        end({ code: status.FAILED_PRECONDITION, details: error.message });
      }
    });
    call.on("end", () => call.end());
    for (const event of ["end", "cancelled", "error", "close"]) call.on(event, over);
  }

  async function resolveOverride(
    { auth, request }: ProxyRequest,
    signal: AbortSignal,
    known: () => void,
  ): Promise<ResolveResponse> {
    const refuse = (code: number, details: string) => Object.assign(new Error(details), { code, details });
    if (!isSame(auth?.controllerSecret, controllerSecret)) {
      throw refuse(status.PERMISSION_DENIED, "controllerSecret does not match");
    }
    known();
    if (auth?.pubKeyHash === undefined || request?.repoKey === undefined) {
      throw refuse(status.INVALID_ARGUMENT, "missing pubKeyHash or request");
    }
    const client = clients.get(auth.pubKeyHash);
    if (client === undefined) throw refuse(status.NOT_FOUND, "connection not found");
    const { repoKey } = request;
    try {
      return await passingOn.run(() => client.ask(repoKey, signal), { signal });
    } catch (error) {
      if (error instanceof ClientError) throw refuse(status.UNAVAILABLE, error.message);
      throw refuse(status.DEADLINE_EXCEEDED, "the client did not respond");
    }
  }

  /** Each connection has its own gRPC server, which knows the connection's gate. */
  function createServerFor(gate: Gate, known: () => void): Grpc.Server {
    const server = new grpc.Server({
      "grpc.max_receive_message_length": messageBytes(limits),
      "grpc.max_send_message_length": messageBytes(limits),
      "grpc.max_concurrent_streams": 4,
      "grpc.keepalive_time_ms": limits.keepaliveMs,
      "grpc.keepalive_timeout_ms": limits.keepaliveMs,
      "grpc.max_connection_idle_ms": 60_000,
      "grpc.enable_channelz": 0,
    });
    server.addService(proxyService, {
      ProxyStream: (call: ServerDuplexStream<ProxyResponse, ProxyRequest>) => proxyStream(call, gate, known),
      ResolveOverride(call: ServerUnaryCall<ProxyRequest, ResolveResponse>, answer: sendUnaryData<ResolveResponse>) {
        const gone = new AbortController();
        const signal = withTimeout(limits.answerMs, gone.signal);
        call.on("cancelled", () => gone.abort());
        resolveOverride(call.request, signal, known).then(
          (response) => answer(null, response),
          (error: ServiceError) => answer(error),
        );
      },
    });
    return server;
  }

  const listener = createServer((socket) => {
    sockets.add(socket);
    strangers.add(socket);
    const late = setTimeout(() => strangers.has(socket) && socket.destroy(), 2 * limits.handshakeMs);
    socket.on("close", () => {
      clearTimeout(late);
      for (const all of [strangers, sockets]) all.delete(socket);
    });
    socket.on("error", () => socket.destroy()); // a closed connection is not an error
    // A live connection is never silent for this long, because it is pinged.
    socket.setTimeout(3 * limits.keepaliveMs, () => socket.destroy());
    if (sockets.size > limits.connections) {
      const [oldest] = strangers;
      oldest?.destroy();
      for (const all of [strangers, sockets]) all.delete(oldest as Socket);
    }
    if (serveConnection && !socket.destroyed) serveConnection(socket);
    else socket.destroy();
  });
  listener.listen(port, host);
  await once(listener, "listening");

  return {
    port: (listener.address() as AddressInfo).port,
    serve(material) {
      controllerSecret = material.controllerSecret;
      const pair = { cert_chain: Buffer.from(material.cert), private_key: Buffer.from(material.key) };
      const credentials = grpc.ServerCredentials.createSsl(null, [pair]);
      serveConnection = (socket) => {
        const gate = createGate(socket, limits.unaskedBytes);
        const known = () => {
          strangers.delete(socket);
          gate.keepOpen();
        };
        const server = createServerFor(gate, known);
        socket.once("close", () => server.forceShutdown());
        server.createConnectionInjector(credentials).injectConnection(gate.stream);
      };
    },
    find: (id) => clients.get(id),
    async stop() {
      serveConnection = undefined;
      const closed = new Promise((resolve) => listener.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function isSame(given: Buffer | undefined, secret: Buffer | undefined): boolean {
  return (
    given !== undefined && secret !== undefined && given.length === secret.length && timingSafeEqual(given, secret)
  );
}

/**
 * The service that `kluctl gitops` connects to, through a port-forward, to offer the files of its user's machine. The
 * server that works on the request need not be the one that holds the connection: others ask here, too.
 */
import { timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import type { sendUnaryData, ServerDuplexStream, ServerUnaryCall, ServiceError } from "@grpc/grpc-js";
import type { Logger } from "../log.ts";
import type { KeyMaterial } from "../ports.ts";
import { type Client, ClientError, createClientSession } from "./client-session.ts";
import { messageBytes, type OverrideLimits } from "./limits.ts";
import type { ProxyRequest, ProxyResponse, ResolveResponse } from "./messages.ts";
import { type GrpcPackage, proxyService } from "./service.ts";

export interface ProxyServerDeps {
  readonly grpc: GrpcPackage;
  /** Absent: all addresses of this machine. */
  readonly host?: string | undefined;
  readonly port: number;
  readonly limits: OverrideLimits;
  readonly log: Logger;
}

export interface ProxyServer {
  /** The real one, when 0 was asked for. */
  readonly port: number;
  /** Until then connections are refused: nobody could know whom they talk to. */
  serve(material: KeyMaterial): void;
  /** A client that is connected to this server. */
  find(id: string): Client | undefined;
  stop(): Promise<void>;
}

/** Throws what the operating system says if the address cannot be had. */
export async function startProxyServer({ grpc, host, port, limits, log }: ProxyServerDeps): Promise<ProxyServer> {
  const { status } = grpc;
  const clients = new Map<string, Client>();
  const sockets = new Set<Socket>();
  let controllerSecret: Buffer | undefined;
  let inject: ((socket: Socket) => void) | undefined;

  function proxyStream(call: ServerDuplexStream<ProxyResponse, ProxyRequest>): void {
    let mine: Client | undefined;
    const session = createClientSession({
      send: (message) => void call.write(message),
      accept(client) {
        if (clients.has(client.id)) throw new ClientError("duplicate server id");
        mine = client;
        clients.set(client.id, client);
        clearTimeout(late);
        log.debug({ client: client.id.slice(0, 8) }, "a client offers source overrides");
      },
    });
    const end = (error: Partial<ServiceError>) => call.destroyed || call.emit("error", error);
    const late = setTimeout(() => {
      end({ code: status.DEADLINE_EXCEEDED, details: "the client did not say who it is" });
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

  async function resolveOverride({ auth, request }: ProxyRequest, signal: AbortSignal): Promise<ResolveResponse> {
    const refuse = (code: number, details: string) => Object.assign(new Error(details), { code, details });
    if (!isSame(auth?.controllerSecret, controllerSecret)) {
      throw refuse(status.PERMISSION_DENIED, "controllerSecret does not match");
    }
    if (auth?.pubKeyHash === undefined || request?.repoKey === undefined) {
      throw refuse(status.INVALID_ARGUMENT, "missing pubKeyHash or request");
    }
    const client = clients.get(auth.pubKeyHash);
    if (client === undefined) throw refuse(status.NOT_FOUND, "connection not found");
    try {
      return await client.ask(request.repoKey, signal);
    } catch (error) {
      if (error instanceof ClientError) throw refuse(status.UNAVAILABLE, error.message);
      throw refuse(status.DEADLINE_EXCEEDED, "the client gave no answer");
    }
  }

  const server = new grpc.Server({
    "grpc.max_receive_message_length": messageBytes(limits),
    "grpc.max_send_message_length": messageBytes(limits),
    "grpc.max_concurrent_streams": 16,
    "grpc.keepalive_time_ms": limits.keepaliveMs,
    "grpc.keepalive_timeout_ms": limits.keepaliveMs,
    "grpc.max_connection_idle_ms": 60_000,
    "grpc.enable_channelz": 0,
  });
  server.addService(proxyService, {
    ProxyStream: proxyStream,
    ResolveOverride(call: ServerUnaryCall<ProxyRequest, ResolveResponse>, answer: sendUnaryData<ResolveResponse>) {
      const gone = new AbortController();
      const signal = AbortSignal.any([gone.signal, AbortSignal.timeout(limits.answerMs)]);
      call.on("cancelled", () => gone.abort());
      resolveOverride(call.request, signal).then(
        (response) => answer(null, response),
        (error: ServiceError) => answer(error),
      );
    },
  });

  const listener = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy()); // who hangs up is no event
    // What is still of use is heard of more often: it is pinged.
    socket.setTimeout(3 * limits.keepaliveMs, () => socket.destroy());
    if (inject) inject(socket);
    else socket.destroy();
  });
  listener.maxConnections = limits.connections;
  listener.listen(port, host);
  await once(listener, "listening");

  return {
    port: (listener.address() as AddressInfo).port,
    serve(material) {
      controllerSecret = material.controllerSecret;
      const pair = { cert_chain: Buffer.from(material.cert), private_key: Buffer.from(material.key) };
      const injector = server.createConnectionInjector(grpc.ServerCredentials.createSsl(null, [pair]));
      inject = (socket) => injector.injectConnection(socket);
    },
    find: (id) => clients.get(id),
    async stop() {
      inject = undefined;
      const closed = new Promise((resolve) => listener.close(resolve));
      server.forceShutdown();
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

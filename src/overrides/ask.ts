/** Sends a request to the client that an override's URL names, whichever server it is connected to. */
import type { ServiceError } from "@grpc/grpc-js";
import type { KeyMaterial } from "../model.ts";
import type { OverrideLimits } from "./limits.ts";
import type { ResolveResponse } from "./messages.ts";
import { askReplica } from "./proxy-client.ts";
import type { ProxyServer } from "./proxy-server.ts";
import type { GrpcPackage } from "./service.ts";

export interface AskDeps {
  readonly grpc: GrpcPackage;
  readonly server: Pick<ProxyServer, "find">;
  /** `undefined` until the keys have been loaded. */
  readonly material: () => KeyMaterial | undefined;
  readonly limits: OverrideLimits;
}

const form = /^grpc\+source-override:\/\/((?:\[[0-9a-f:]+\]|[a-z0-9.-]+):\d{1,5})\/([0-9a-f]{64})$/i;
const ask = "run the command again and keep it running until it ends";

export function createAsk({ grpc, server, material, limits }: AskDeps) {
  return async (url: string, repoKey: string, signal: AbortSignal): Promise<ResolveResponse> => {
    const [, address, id] = form.exec(url) ?? [];
    if (address === undefined || id === undefined) {
      throw new Error("it is not an address created by kluctl gitops (grpc+source-override://host:port/client)");
    }
    const client = server.find(id);
    if (client) return client.ask(repoKey, signal);
    const known = material();
    if (known === undefined) throw new Error("the source-override service has no keys yet; see its log");
    try {
      return await askReplica(grpc, known, { address, client: id, repoKey }, limits, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw explain(grpc, error as Partial<ServiceError> & Error);
    }
  };
}

function explain({ status }: GrpcPackage, error: Partial<ServiceError> & Error): Error {
  const { code, details = error.message } = error;
  const whys: Readonly<Record<number, string>> = {
    [status.NOT_FOUND]: `the kluctl that offered it is no longer connected; ${ask}`,
    [status.PERMISSION_DENIED]:
      "the server at that address has a different secret; does it belong to another installation?",
  };
  const why = whys[code ?? status.UNKNOWN] ?? (details === "connection not found" ? whys[status.NOT_FOUND] : undefined);
  return new Error(why ?? details.replace(/\s*Resolution note:\s*$/, ""), { cause: error });
}

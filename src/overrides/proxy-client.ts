/**
 * Requests sources of a client that is connected to another replica; the replica's address is in the override's URL.
 */
import { createSecureContext } from "node:tls";
import { resolveAllowed, systemLookup } from "../kit/address.ts";
import type { KeyMaterial } from "../model.ts";
import { serverName } from "./key-material.ts";
import { messageBytes, type OverrideLimits } from "./limits.ts";
import type { ProxyRequest, ResolveResponse } from "./messages.ts";
import { type GrpcPackage, proxyService } from "./service.ts";

export interface SourceRequest {
  /** `host:port`. */
  readonly address: string;
  readonly client: string;
  readonly repoKey: string;
}

/** Checks the address, because any user who may annotate a deployment can choose it. */
async function findTarget(address: string): Promise<string> {
  const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(address) ?? [];
  const [found] = await resolveAllowed(host, systemLookup);
  if (found === undefined) throw new Error(`the name ${host} cannot be resolved`);
  return found.includes(":") ? `ipv6:[${found}]:${port}` : `ipv4:${found}:${port}`;
}

/**
 * Sends the secret only to a server that has the key of our certificate, wherever the address leads. Throws gRPC's
 * error, or the signal's reason.
 */
export async function askReplica(
  grpc: GrpcPackage,
  { cert, controllerSecret }: KeyMaterial,
  { address, client: pubKeyHash, repoKey }: SourceRequest,
  limits: OverrideLimits,
  signal: AbortSignal,
): Promise<ResolveResponse> {
  signal.throwIfAborted();
  // Trusts the certificate itself, not its authority: in the certificates of kluctl's controller both have the same
  // name, so OpenSSL takes the certificate for self-signed.
  const trusted = createSecureContext({ ca: cert, allowPartialTrustChain: true });
  const client = new grpc.Client(await findTarget(address), grpc.credentials.createFromSecureContext(trusted), {
    "grpc.ssl_target_name_override": serverName,
    "grpc.default_authority": serverName,
    "grpc.max_receive_message_length": messageBytes(limits),
    "grpc.enable_http_proxy": 0,
    "grpc.enable_channelz": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.use_local_subchannel_pool": 1,
  });
  const { path, requestSerialize, responseDeserialize } = proxyService.ResolveOverride;
  const request: ProxyRequest = { auth: { pubKeyHash, controllerSecret }, request: { repoKey } };
  const options = { deadline: Date.now() + limits.answerMs };
  let abort = () => {};
  try {
    return await new Promise<ResolveResponse>((resolve, reject) => {
      const call = client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        options,
        (error, value) => {
          if (error || !value) reject(error ?? new Error("empty response"));
          else resolve(value);
        },
      );
      abort = () => call.cancel();
      signal.addEventListener("abort", abort, { once: true });
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
    client.close();
  }
}

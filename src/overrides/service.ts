/** `sourceoverride.Proxy` as a gRPC service definition. The gRPC package is loaded only if the service is enabled. */
import type * as Grpc from "@grpc/grpc-js";
import { ProxyRequest, ProxyResponse, ResolveResponse } from "./messages.ts";

export type GrpcPackage = typeof Grpc;

export async function loadGrpc(): Promise<GrpcPackage> {
  const grpc = await import("@grpc/grpc-js");
  grpc.setLogVerbosity(grpc.logVerbosity.NONE); // it would write to the terminal, between the log lines
  return grpc;
}

const base = "/sourceoverride.Proxy";

export const proxyService = {
  ProxyStream: {
    path: `${base}/ProxyStream`,
    requestStream: true,
    responseStream: true,
    requestSerialize: ProxyResponse.encode,
    requestDeserialize: ProxyResponse.decode,
    responseSerialize: ProxyRequest.encode,
    responseDeserialize: ProxyRequest.decode,
  },
  ResolveOverride: {
    path: `${base}/ResolveOverride`,
    requestStream: false,
    responseStream: false,
    requestSerialize: ProxyRequest.encode,
    requestDeserialize: ProxyRequest.decode,
    responseSerialize: ResolveResponse.encode,
    responseDeserialize: ResolveResponse.decode,
  },
} as const satisfies Grpc.ServiceDefinition;

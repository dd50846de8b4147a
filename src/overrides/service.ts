/** `sourceoverride.Proxy` as gRPC calls it. The package that speaks it is loaded only where the service is wanted. */
import type * as Grpc from "@grpc/grpc-js";
import { ProxyRequest, ProxyResponse, ResolveResponse } from "./messages.ts";

export type GrpcPackage = typeof Grpc;

export async function loadGrpc(): Promise<GrpcPackage> {
  const grpc = await import("@grpc/grpc-js");
  grpc.setLogVerbosity(grpc.logVerbosity.NONE); // it writes to the terminal, where log lines belong
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

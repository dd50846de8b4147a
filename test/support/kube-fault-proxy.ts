/** The fault proxy of the API server, for one test. */
import { onTestFinished } from "vitest";
import { type FaultProxy, startFaultProxy } from "../../dev/parts/kube-fault-proxy.ts";

export type { FaultProxy } from "../../dev/parts/kube-fault-proxy.ts";

export async function useFaultProxy(kubeconfig: string): Promise<FaultProxy> {
  const proxy = await startFaultProxy(kubeconfig);
  onTestFinished(() => proxy.stop());
  return proxy;
}

/**
 * The proxies that git and kluctl heed, for what the process itself asks by `fetch`: the APIs of git hosts, identity providers.
 * The API server of Kubernetes and Redis are asked without: a kubeconfig has a key of its own for that.
 */
import http from "node:http";

const names = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"];
const exceptions = ["no_proxy", "NO_PROXY"];

/** For the whole process. A Node older than 24.14 cannot. */
export function useProxies(env: Readonly<Record<string, string | undefined>>): void {
  const proxies = names.flatMap((name) => {
    const proxy = toProxy(env[name] ?? "");
    return proxy === undefined ? [] : [[name, proxy] as const];
  });
  if (proxies.length === 0) return;
  const except = exceptions.flatMap((name) => (env[name] ? [[name, env[name]] as const] : []));
  http.setGlobalProxyFromEnv?.(Object.fromEntries([...proxies, ...except]));
}

/** As curl and git take it: without a scheme it is HTTP. Other kinds of proxies Node does not know. */
export function toProxy(value: string): string | undefined {
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`;
  return value !== "" && /^https?:/i.test(url) && URL.canParse(url) ? url : undefined;
}

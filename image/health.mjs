// Checks whether the server in this container is alive: `serve` answers on its health port, `controller run` on that of
// kluctl's controller. If the configuration file sets the health port, set TOWLINE_ADMIN_PORT to the same value.
const addresses = [`http://127.0.0.1:${process.env.TOWLINE_ADMIN_PORT || 9090}/livez`, "http://127.0.0.1:8081/healthz"];

async function ask(address) {
  const { ok } = await fetch(address, { signal: AbortSignal.timeout(2_500) });
  if (!ok) throw new Error(address);
}

process.exitCode = await Promise.any(addresses.map(ask)).then(
  () => 0,
  () => 1,
);

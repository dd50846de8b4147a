// Whether the server in this container lives: `serve` says so on its port for health, `controller run` as kluctl's
// controller does. For a server whose ports are set in a file, name the one for health in TOWLINE_ADMIN_PORT as well.
const addresses = [`http://127.0.0.1:${process.env.TOWLINE_ADMIN_PORT || 9090}/livez`, "http://127.0.0.1:8081/healthz"];

async function ask(address) {
  const { ok } = await fetch(address, { signal: AbortSignal.timeout(2_500) });
  if (!ok) throw new Error(address);
}

process.exitCode = await Promise.any(addresses.map(ask)).then(
  () => 0,
  () => 1,
);

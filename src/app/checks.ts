/** The readiness checks of the server, by name. */
import type { Check, CheckResult } from "../../routes/admin.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import type { KluctlProcesses } from "../kluctl/kluctl.ts";
import type { Clock } from "../ports.ts";
import type { FluxWatch } from "./flux.ts";
import type { Forks, Isolation } from "./isolation.ts";
import type { ServerState } from "./state.ts";

export interface ChecksDeps {
  readonly deployments: Pick<WatchedDeployments, "synced" | "age" | "problem" | "all">;
  /** Throws if Redis does not respond. */
  readonly checkRedis: () => Promise<{ readonly problems: readonly string[]; readonly warnings: readonly string[] }>;
  readonly kluctl: Pick<KluctlProcesses, "version">;
  /** Forge id → time of the last authentic delivery, in epoch milliseconds. */
  readonly lastDelivery: ReadonlyMap<string, number>;
  readonly state: ServerState;
  readonly previews: () => boolean;
  /** `undefined`: previews are not confined. */
  readonly isolation?: Isolation | undefined;
  readonly forks: () => Forks;
  /** Whether Kustomizations of Flux are rendered, or why not; `undefined`: they are not meant to be. */
  readonly kustomizations?: (() => string | undefined) | undefined;
  /** `undefined`: nothing is done for Flux. */
  readonly flux?: Pick<FluxWatch, "isReady"> | undefined;
  readonly clock: Clock;
}

export function createChecks(deps: ChecksDeps): Check[] {
  const { deployments, checkRedis, kluctl, lastDelivery, state, previews, isolation, forks, flux, clock } = deps;
  return [
    {
      name: "server",
      check: () => (state.stoppingSince ? { ok: false, error: "stopping" } : { ok: true }),
    },
    {
      name: "kubernetes",
      check() {
        // A standby that knows the deployments is ready: a rollout stops the old server only after that.
        const standby = state.leadership?.waitsFor();
        if (standby !== undefined && deployments.synced()) return { ok: true, standby };
        const watchAgeSeconds = Math.round(deployments.age());
        const error =
          (state.leadership ? state.leadership.problem() : "the server is starting") ??
          deployments.problem() ??
          (deployments.synced() ? undefined : "KluctlDeployments have not been listed yet");
        return { ok: error === undefined, error, watchAgeSeconds, deployments: deployments.all().length };
      },
    },
    ...(flux === undefined ? [] : [{ name: "flux", check: () => checkFlux(flux) }]),
    {
      name: "redis",
      async check() {
        const { problems, warnings } = await checkRedis();
        return { ok: problems.length === 0, error: problems.join(" ") || undefined, warnings };
      },
    },
    {
      name: "kluctl",
      check: async () => ({ ok: true, version: await kluctl.version() }),
    },
    {
      name: "sweep",
      check: () => ({ ok: true, ageSeconds: Math.round(state.work?.sweepAge() ?? 0) }),
    },
    {
      name: "previews",
      check: () => ({
        ok: true,
        ...{ enabled: previews(), forks: forks(), kustomizations: deps.kustomizations?.() },
        isolation: isolation ?? { mode: "off" },
      }),
    },
    {
      name: "webhooks",
      check: () => ({
        ok: true,
        lastDeliverySecondsAgo: Object.fromEntries(
          [...lastDelivery].map(([forge, at]) => [forge, Math.round((clock.now() - at) / 1_000)]),
        ),
      }),
    },
  ];
}

/** Of a standby too: it takes deliveries. */
function checkFlux({ isReady }: Pick<FluxWatch, "isReady">): CheckResult {
  return isReady() ? { ok: true } : { ok: false, error: "Flux's GitRepositories have not been listed yet" };
}

/** Counts checks that are skipped because nothing can have changed, and how reliable the evidence is. */
import { Counter, Gauge, type Registry } from "prom-client";

export interface SkippingMetrics {
  /** A check was due by its interval. It was skipped unless there was a reason to check. */
  intervalCheck(reason: string | undefined): void;
  /** An object that a deployment had applied was changed or deleted. */
  drifted(): void;
  /** A check that could have been skipped was run anyway, as an audit. */
  audited(result: string): void;
  /** A skipped check would have found a change. `believed`: which part of the evidence was wrong. */
  wrongSkip(believed: string): void;
}

/** `size`: how much is being watched now. */
export function createSkippingMetrics(
  registry: Registry,
  size: () => { readonly watches: number; readonly objects: number },
): SkippingMetrics {
  const registers = [registry];
  const checks = new Counter({
    name: "towline_interval_checks_total",
    help: "Checks due by their interval; skipped if nothing can have changed, otherwise the reason why not.",
    labelNames: ["result", "reason"],
    registers,
  });
  const drifted = new Counter({
    name: "towline_drift_checks_total",
    help: "Reconciliations requested because an applied object was changed or deleted.",
    registers,
  });
  const audits = new Counter({
    name: "towline_skip_audits_total",
    help: "Skipped checks that were run anyway as an audit, by result.",
    labelNames: ["result"],
    registers,
  });
  const wrong = new Counter({
    name: "towline_wrong_skips_total",
    help: "Skipped checks that would have found a change, by the evidence they relied on.",
    labelNames: ["believed"],
    registers,
  });
  for (const believed of ["move", "inputs", "objects"]) wrong.inc({ believed }, 0);
  function gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  }
  gauge("towline_applied_objects", "Applied objects whose version is known.", () => size().objects);
  gauge("towline_applied_objects_watches", "Watches of applied objects.", () => size().watches);
  return {
    intervalCheck: (reason) =>
      checks.inc({ result: reason === undefined ? "skipped" : "checked", reason: reason ?? "" }),
    drifted: () => drifted.inc(),
    audited: (result) => audits.inc({ result }),
    wrongSkip: (believed) => wrong.inc({ believed }),
  };
}

/** Stores results only while this is enabled in the live configuration. */
import type { LiveConfig } from "../config/live.ts";
import { type ResultStore, storeNothing } from "../kube/result-store.ts";

export function createLiveResults(live: LiveConfig, stored: ResultStore): ResultStore {
  const wanted = () => (live.now.results.write ? stored : storeNothing);
  return {
    storeCommand: (...asked) => wanted().storeCommand(...asked),
    storeValidate: (...asked) => wanted().storeValidate(...asked),
    removeOrphans: (...asked) => wanted().removeOrphans(...asked),
  };
}

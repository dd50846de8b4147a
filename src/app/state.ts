/** How far the server has come: it answers questions about its work before the work starts and after it has ended. */
import type { Leadership } from "../kube/leader.ts";
import type { StartedWork } from "./work.ts";

export interface ServerState {
  stoppingSince?: Date | undefined;
  leadership?: Leadership | undefined;
  work?: StartedWork | undefined;
}

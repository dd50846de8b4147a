/** The processes of this machine, for tests of what must not be left behind. */
export { findProcessesOf, findRunsOf } from "../../dev/parts/processes.ts";

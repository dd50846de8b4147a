/** What runs on this machine, as far as tests of what must not be left behind care. */
export { findProcessesOf, findRunsOf } from "../../dev/parts/processes.ts";

import { PrepareError } from "../errors.ts";

/** The project cannot be rendered with the base of the merge either: the merge is not to blame. */
export class BrokenBaseError extends PrepareError {}

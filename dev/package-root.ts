import { findPackageJSON } from "node:module";
import { dirname } from "node:path";

/** The directory of the checkout, or of the installed package, whose `dist` contains the compiled sources. */
export const packageRoot = dirname(findPackageJSON("..", import.meta.url) ?? import.meta.dirname);

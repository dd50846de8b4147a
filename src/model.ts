/** The domain model: types, and the few functions that belong to them. */
export * from "./model/key.ts";
export * from "./model/source.ts";
export * from "./model/forge.ts";
export * from "./model/request.ts";
export * from "./model/receipt.ts";
export * from "./model/merge-group.ts";
export * from "./model/deployment.ts";
export * from "./model/result.ts";
export * from "./model/object-version.ts";

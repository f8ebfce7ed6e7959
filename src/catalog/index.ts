// Public API of the model catalog: records of models, and the lists that the gateway publishes of them. Re-exports only.
export { aggregatorList, anthropicEntry, anthropicList, discoveryMap, openAiEntry, openAiList } from './listings.ts';
export type { CatalogModel } from './models.ts';

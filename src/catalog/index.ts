// The door of the catalog room.
export { aggregatorList, anthropicList, discoveryMap, openAiEntry, openAiList } from './listings.ts';
export type { CatalogModel } from './models.ts';

// The door of the catalog room.
export { aggregatorList, anthropicEntry, anthropicList, discoveryMap, openAiEntry, openAiList } from './listings.ts';
export { CAPABILITIES, type CatalogModel } from './models.ts';

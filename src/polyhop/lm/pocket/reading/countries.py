"""Countries, their peoples and a few of their regions, so that places and nationalities can be compared."""

from __future__ import annotations

import re

# One country a line: its name, the adjectives of its people, and after "|" other names of it.
_COUNTRIES = """
United States: American | USA, U.S., US, United States of America, America
United Kingdom: British, English, Scottish, Welsh | UK, U.K., Britain, England, Scotland, Wales
India: Indian
Pakistan: Pakistani
Bangladesh: Bangladeshi
Sri Lanka: Sri Lankan
Nepal: Nepalese, Nepali
Iran: Iranian, Persian
Iraq: Iraqi
Israel: Israeli
Turkey: Turkish
Syria: Syrian
Lebanon: Lebanese
Jordan: Jordanian
Egypt: Egyptian
Saudi Arabia: Saudi
Kuwait: Kuwaiti
Yemen: Yemeni
Afghanistan: Afghan
Armenia: Armenian
Azerbaijan: Azerbaijani
Georgia: Georgian
Kazakhstan: Kazakh
Uzbekistan: Uzbek
China: Chinese | People's Republic of China
Taiwan: Taiwanese
Hong Kong:
Japan: Japanese
South Korea: South Korean, Korean
North Korea: North Korean
Mongolia: Mongolian
Vietnam: Vietnamese
Thailand: Thai
Malaysia: Malaysian
Singapore: Singaporean
Indonesia: Indonesian
Philippines: Filipino, Philippine, Filipina
Cambodia: Cambodian
Myanmar: Burmese | Burma
Australia: Australian
New Zealand: New Zealander
Canada: Canadian
Mexico: Mexican
Cuba: Cuban
Jamaica: Jamaican
Haiti: Haitian
Dominican Republic:
Puerto Rico: Puerto Rican
Guatemala: Guatemalan
Costa Rica: Costa Rican
Panama: Panamanian
Colombia: Colombian
Venezuela: Venezuelan
Ecuador: Ecuadorian
Peru: Peruvian
Bolivia: Bolivian
Chile: Chilean
Argentina: Argentine, Argentinian, Argentinean
Uruguay: Uruguayan
Paraguay: Paraguayan
Brazil: Brazilian
France: French
Germany: German, West German, East German | West Germany
Austria: Austrian
Switzerland: Swiss
Liechtenstein:
Luxembourg: Luxembourgish
Belgium: Belgian
Netherlands: Dutch
Denmark: Danish
Norway: Norwegian
Sweden: Swedish
Finland: Finnish
Iceland: Icelandic
Ireland: Irish | Republic of Ireland
Italy: Italian
Malta: Maltese
Spain: Spanish, Catalan
Portugal: Portuguese
Greece: Greek
Cyprus: Cypriot
Albania: Albanian
Serbia: Serbian, Serb
Croatia: Croatian, Croat
Slovenia: Slovenian, Slovene
Bosnia and Herzegovina: Bosnian
Montenegro: Montenegrin
North Macedonia: Macedonian | Macedonia
Bulgaria: Bulgarian
Romania: Romanian
Moldova: Moldovan
Hungary: Hungarian
Czech Republic: Czech, Czechoslovak | Czechoslovakia
Slovakia: Slovak
Poland: Polish
Lithuania: Lithuanian
Latvia: Latvian
Estonia: Estonian
Ukraine: Ukrainian
Belarus: Belarusian
Russia: Russian
Soviet Union: Soviet
Morocco: Moroccan
Algeria: Algerian
Tunisia: Tunisian
Libya: Libyan
Sudan: Sudanese
Ethiopia: Ethiopian
Somalia: Somali
Kenya: Kenyan
Uganda: Ugandan
Tanzania: Tanzanian
Rwanda: Rwandan
Nigeria: Nigerian
Ghana: Ghanaian
Senegal: Senegalese
Mali: Malian
Ivory Coast: Ivorian
Cameroon: Cameroonian
Angola: Angolan
Mozambique: Mozambican
Zambia: Zambian
Zimbabwe: Zimbabwean
Botswana: Botswanan
Namibia: Namibian
South Africa: South African
Madagascar: Malagasy
"""

# Regions that texts name without their country; names that are countries too (Georgia) are left out.
_REGIONS = """
United States: Alabama, Alaska, Arizona, Arkansas, California, Colorado, Connecticut, Delaware, Florida, Hawaii, Idaho,
 Illinois, Indiana, Iowa, Kansas, Kentucky, Louisiana, Maine, Maryland, Massachusetts, Michigan, Minnesota, Mississippi,
 Missouri, Montana, Nebraska, Nevada, New Hampshire, New Jersey, New Mexico, New York, North Carolina, North Dakota,
 Ohio, Oklahoma, Oregon, Pennsylvania, Rhode Island, South Carolina, South Dakota, Tennessee, Texas, Utah, Vermont,
 Virginia, Washington, West Virginia, Wisconsin, Wyoming, New York City, Los Angeles, Chicago, Boston
Canada: Ontario, Quebec, Manitoba, Saskatchewan, Alberta, British Columbia, Newfoundland, Nova Scotia, New Brunswick
Australia: Queensland, Tasmania, New South Wales, South Australia, Western Australia
United Kingdom: London, Yorkshire, Kent, Sussex, Surrey, Lancashire, Cornwall, Devon, Norfolk, Suffolk
India: Kerala, Tamil Nadu, Maharashtra, Karnataka, Punjab, Gujarat, Rajasthan, West Bengal, Mumbai, Chennai, Delhi
France: Paris
Germany: Berlin, Bavaria, Saxony
Russia: Moscow, Siberia
Switzerland: Zurich, Lucerne
"""


def _rows(table: str) -> list[tuple[str, list[str], list[str]]]:
    rows = []
    for line in table.replace("\n ", " ").strip().splitlines():
        country, _, rest = line.partition(":")
        left, _, right = rest.partition("|")
        rows.append((country, _names(left), _names(right)))
    return rows


def _names(cell: str) -> list[str]:
    return [name.strip().lower() for name in cell.split(",") if name.strip()]


PEOPLES: dict[str, str] = {people: row[0] for row in _rows(_COUNTRIES) for people in row[1]}
"""Adjective of a people in lower case -> its country."""

COUNTRIES: dict[str, str] = {
    name: country for country, _, others in _rows(_COUNTRIES) for name in (country.lower(), *others)
}
"""Name of a country in lower case -> its usual name."""

REGIONS: dict[str, str] = {region: row[0] for row in _rows(_REGIONS) for region in row[1]}
"""Region or large city in lower case -> its country."""

_ADJECTIVE_OF: dict[str, str] = {}
for _people, _country in PEOPLES.items():
    _ADJECTIVE_OF.setdefault(_country, _people)


def _pattern(names: dict[str, str]) -> re.Pattern[str]:
    return re.compile(
        rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, names), key=len, reverse=True))})(?!\w)", re.IGNORECASE
    )


PEOPLE_PATTERN = _pattern(PEOPLES)
PLACE_PATTERN = _pattern(COUNTRIES | REGIONS)


def country_of(text: str) -> str | None:
    """The country that a nationality, a country's name or a place with its country last stands for.

    >>> country_of("Danish"), country_of("Mexico"), country_of("Austin, Texas"), country_of("Nowhere")
    ('Denmark', 'Mexico', 'United States', None)
    """
    key = text.strip(" .,").lower()
    if found := PEOPLES.get(key) or COUNTRIES.get(key) or REGIONS.get(key):
        return found
    places = PLACE_PATTERN.findall(text)
    if places:
        last = places[-1].lower()
        return COUNTRIES.get(last) or REGIONS[last]
    peoples = PEOPLE_PATTERN.findall(text)
    return PEOPLES[peoples[0].lower()] if peoples else None

# ruff: noqa: E501
"""Words of the languages in which the pages are written; enough for headlines, prices and ages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


@dataclass(frozen=True, slots=True)
class Language:
    """One language."""

    code: str
    words: tuple[str, ...]
    goods: tuple[str, ...]
    months: tuple[str, ...]
    weekdays: tuple[str, ...]
    """Monday first."""
    ago: Callable[[int, str], str]
    """An age: a number and a unit (minute, hour, day)."""
    labels: dict[str, str]
    """Short texts of pages."""

    def sentence(self, dice: Random, words: int) -> str:
        """A sentence of random words."""
        gap = "" if self.code == "ja" else " "
        text = gap.join(dice.choice(self.words) for _ in range(words))
        return text[:1].upper() + text[1:] + ("。" if self.code == "ja" else ".")


def _units(one: dict[str, str], many: dict[str, str]) -> Callable[[int, str], str]:
    return lambda count, unit: (one if count == 1 else many)[unit].format(count)


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_LABELS: Final = [
    "home",
    "about",
    "updated",
    "served",
    "cart",
    "comments",
    "price",
    "stock",
    "sold",
    "next",
    "online",
    "views",
    "likes",
    "visitors",
    "offer",
    "most",
    "read",
    "event",
    "opens",
    "version",
    "phone",
    "status",
    "ok",
    "degraded",
    "winner",
    "deadline",
]


def _labels(text: str) -> dict[str, str]:
    return dict(zip(_LABELS, text.split("|"), strict=True))


LANGUAGES: Final = (
    Language(
        "en",
        _split(
            "harbour council river bridge teacher season market engine winter report village student minister "
            "museum garden player record forest budget hospital weather railway library company science island "
            "journey street kitchen morning concert planet station theatre valley window picture question "
            "people after before during under against between quickly slowly often never always again still "
            "almost quite opened closed builds found keeps shows brings calls reads holds moves starts"
        ),
        _split("kettle lamp bicycle tent piano jacket camera atlas ladder clock drum sofa"),
        _split("January February March April May June July August September October November December"),
        _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        _units(
            {"minute": "1 minute ago", "hour": "1 hour ago", "day": "1 day ago"},
            {"minute": "{} minutes ago", "hour": "{} hours ago", "day": "{} days ago"},
        ),
        _labels(
            "Home|About|Last updated|Served by|Your cart|Comments|Price|in stock|sold out|Next departures|online now"
            "|views|likes|Visitors|Offer ends in|Most read|Read more|Concert|doors open at|Version|Telephone|Status"
            "|Operational|Degraded|Winner|Deadline"
        ),
    ),
    Language(
        "de",
        _split(
            "hafen rat fluss brücke lehrer saison markt motor winter bericht dorf student minister museum garten "
            "spieler rekord wald haushalt klinik wetter bahn bücherei firma forschung insel reise straße küche "
            "konzert planet bahnhof theater tal fenster bild frage menschen nach vor während unter gegen zwischen "
            "schnell langsam oft nie immer wieder noch fast ganz öffnet schließt baut findet hält zeigt bringt"
        ),
        _split("kessel lampe fahrrad zelt klavier jacke kamera atlas leiter uhr trommel sofa"),
        _split("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        _split("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        _units(
            {"minute": "vor 1 Minute", "hour": "vor 1 Stunde", "day": "vor 1 Tag"},
            {"minute": "vor {} Minuten", "hour": "vor {} Stunden", "day": "vor {} Tagen"},
        ),
        _labels(
            "Start|Über uns|Zuletzt geändert|Ausgeliefert von|Warenkorb|Kommentare|Preis|auf Lager|ausverkauft"
            "|Nächste Abfahrten|gerade online|Aufrufe|gefällt|Besucher|Angebot endet in|Meistgelesen|Mehr|Konzert"
            "|Einlass um|Version|Telefon|Zustand|In Betrieb|Gestört|Sieger|Frist"
        ),
    ),
    Language(
        "fr",
        _split(
            "port conseil fleuve pont maître saison marché moteur hiver rapport village étudiant ministre musée "
            "jardin joueur record forêt budget hôpital temps chemin librairie société science île voyage rue "
            "cuisine concert planète gare théâtre vallée fenêtre image question gens après avant pendant sous "
            "contre entre vite souvent jamais toujours encore presque ouvre ferme bâtit trouve garde montre"
        ),
        _split("bouilloire lampe vélo tente piano veste caméra atlas échelle horloge tambour canapé"),
        _split("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
        _split("lundi mardi mercredi jeudi vendredi samedi dimanche"),
        _units(
            {"minute": "il y a 1 minute", "hour": "il y a 1 heure", "day": "il y a 1 jour"},
            {"minute": "il y a {} minutes", "hour": "il y a {} heures", "day": "il y a {} jours"},
        ),
        _labels(
            "Accueil|À propos|Mis à jour|Servi par|Panier|Commentaires|Prix|en stock|épuisé|Prochains départs"
            "|en ligne|vues|j'aime|Visiteurs|L'offre expire dans|Les plus lus|Lire|Concert|ouverture à|Version"
            "|Téléphone|État|En service|Dégradé|Vainqueur|Échéance"
        ),
    ),
    Language(
        "es",
        _split(
            "puerto consejo río puente maestro temporada mercado motor invierno informe pueblo estudiante ministro "
            "museo jardín jugador récord bosque presupuesto hospital tiempo tren biblioteca empresa ciencia isla "
            "viaje calle cocina concierto planeta estación teatro valle ventana imagen pregunta gente después antes "
            "durante bajo contra entre rápido nunca siempre otra casi abre cierra construye encuentra guarda"
        ),
        _split("tetera lámpara bicicleta tienda piano chaqueta cámara atlas escalera reloj tambor sofá"),
        _split("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
        _split("lunes martes miércoles jueves viernes sábado domingo"),
        _units(
            {"minute": "hace 1 minuto", "hour": "hace 1 hora", "day": "hace 1 día"},
            {"minute": "hace {} minutos", "hour": "hace {} horas", "day": "hace {} días"},
        ),
        _labels(
            "Inicio|Acerca|Actualizado|Servido por|Carrito|Comentarios|Precio|disponibles|agotado|Próximas salidas"
            "|en línea|visitas|me gusta|Visitantes|La oferta acaba en|Lo más leído|Leer|Concierto|puertas a las"
            "|Versión|Teléfono|Estado|Operativo|Degradado|Ganador|Plazo"
        ),
    ),
    Language(
        "pl",
        _split(
            "port rada rzeka most nauczyciel sezon rynek silnik zima raport wieś student minister muzeum ogród gracz "
            "rekord las budżet szpital pogoda kolej biblioteka firma nauka wyspa podróż ulica kuchnia koncert planeta "
            "stacja teatr dolina okno obraz pytanie ludzie po przed podczas pod przeciw między szybko często nigdy "
            "zawsze znowu prawie otwiera zamyka buduje znajduje trzyma pokazuje"
        ),
        _split("czajnik lampa rower namiot pianino kurtka kamera atlas drabina zegar bęben sofa"),
        _split(
            "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia"
        ),
        _split("poniedziałek wtorek środa czwartek piątek sobota niedziela"),
        _units(
            {"minute": "1 minutę temu", "hour": "1 godzinę temu", "day": "1 dzień temu"},
            {"minute": "{} minut temu", "hour": "{} godzin temu", "day": "{} dni temu"},
        ),
        _labels(
            "Start|O nas|Aktualizacja|Serwer|Koszyk|Komentarze|Cena|w magazynie|wyprzedane|Najbliższe odjazdy"
            "|teraz online|wyświetleń|polubień|Odwiedzin|Oferta kończy się za|Najczęściej czytane|Więcej|Koncert"
            "|otwarcie o|Wersja|Telefon|Stan|Działa|Zakłócenia|Zwycięzca|Termin"
        ),
    ),
    Language(
        "ja",
        _split(
            "港 議会 川 橋 教師 季節 市場 機関 冬 報告 村 学生 大臣 博物館 庭 選手 記録 森 予算 病院 天気 鉄道 図書館 会社 科学 "
            "島 旅 通り 台所 朝 音楽会 惑星 駅 劇場 谷 窓 写真 質問 人々 後で 前に 早く 遅く 時々 決して いつも また まだ ほとんど "
            "開く 閉じる 建てる 見つける 守る 示す"
        ),
        _split("やかん ランプ 自転車 テント ピアノ 上着 カメラ 地図帳 はしご 時計 太鼓 ソファ"),
        tuple(f"{number}月" for number in range(1, 13)),
        _split("月曜日 火曜日 水曜日 木曜日 金曜日 土曜日 日曜日"),
        _units(
            {"minute": "1 分前", "hour": "1 時間前", "day": "1 日前"},
            {"minute": "{} 分前", "hour": "{} 時間前", "day": "{} 日前"},
        ),
        _labels(
            "ホーム|概要|最終更新|サーバー|カート|コメント|価格|在庫|売り切れ|次の発車|オンライン|閲覧|いいね|訪問者|セール終了まで|よく読まれている"
            "|続き|音楽会|開場|バージョン|電話|状態|正常|障害|優勝|締切"
        ),
    ),
)
